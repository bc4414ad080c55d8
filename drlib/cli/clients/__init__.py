"""Commands for applications: the pointer they follow, the address of those that cannot, and who they are."""
