"""The folder that is put on PYTHONPATH, so that every Python that the command starts begins with ``sitecustomize``."""
