"""Moving a project to a target run by run: fixes are made, the ledger is read again, what failed is taken back."""
