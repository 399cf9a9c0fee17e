"""What this machine can really do, measured. torch is imported only by the checks, in processes of their own."""
