"""What code asks of torch: dtypes, devices, autocast regions, scalers."""
