"""What is compared with a real GPU, where there is one: ``python -m tests.gpu``. Nothing here is a test."""
