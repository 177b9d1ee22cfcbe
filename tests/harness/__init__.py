"""A whole sidecar under test: the process, an application beside it, and a checker that trusts
neither. Nothing here imports the product; what stands between them is the contract.
"""
