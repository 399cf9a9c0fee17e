"""What becomes of a scaler's state: where it is saved and loaded, and where the scaler is made anew."""
