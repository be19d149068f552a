package partition

// CrowdedBy is [Crowded] by another number of transactions.
var CrowdedBy = crowdedAt
