"""What runs within the user's own process. Only the standard library and, once the program has imported it, torch.

It is loaded by its place under another name, as the program's environment may not have precfix: so nothing here may
import anything of precfix outside this folder.
"""
