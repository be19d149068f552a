package account

// ClosableSQL is explained by a test.
const ClosableSQL = closableSQL
