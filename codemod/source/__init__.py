"""What is read of a project: files, documents, notebooks, and the project that holds them."""
