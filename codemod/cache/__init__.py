"""What precfix keeps on disk between runs: answers of whole runs, and what is known of single files.

Nothing here is needed: whatever is missing, damaged or not to be trusted is computed anew. Kept files hold JSON with a
checksum, never code or pickles. They lie in the user's own cache folder, never in the project.
"""
