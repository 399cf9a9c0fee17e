"""What it takes to bring a project to another regime."""
