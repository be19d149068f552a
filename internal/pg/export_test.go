package pg

// OnOneServer marks a connection whose last commit a standby has not confirmed.
const OnOneServer = onOneServer
