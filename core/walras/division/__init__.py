"""Who gets what: the sale of cores, prices, auctions, memory, and what pods hold."""
