"""Stand-ins that behave: each passes the contract suite of the port it stands in for."""
