"""The settings of a project and of its folders."""
