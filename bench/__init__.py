"""What the sidecar costs, measured beside the bare client on one real broker: `make bench`."""
