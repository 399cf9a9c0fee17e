"""How far the project is searched for the meaning of an expression: every limit of it, each with its reason.

They bound the work, and are meant to lie beyond what people write by hand. Where one is reached, the answer says that
there may be more: a `Gap` of the tracer, callers that are not complete.
"""

MAX_DEPTH = 16
"""Expressions on the way from a question to its answer: a dozen assignments in a row, fewer where conditional
expressions and calls stand between them."""
MAX_CALLER_HOPS = 3
"""Functions through which a parameter is followed to what callers pass: main -> train -> train_epoch -> step."""
MAX_STEPS = 400
"""Expressions that one question looks at. It bounds the product of callers, branches and returns."""
MAX_VALUES = 24
"""Answers to one question. A setting with more (a table of models) says nothing that a rule could use."""
MAX_ALIAS_HOPS = 8
"""Re-exports in a row: ``pkg/__init__`` -> ``pkg/sub/__init__`` -> the module, and the same again for an alias."""
MAX_BASES = 6
"""Base classes up in which a method or attribute is searched."""
MAX_CALL_SITES = 64
"""Calls of one function. What is called more often is a tool of the whole project, and its arguments say nothing."""
MAX_CALLER_FILES = 30
"""Files in which a function's name may stand before its callers count as unknown: such a name is a common word."""
MAX_FILES_SEARCHED = 400
"""Up to this many files every file is searched for callers; in larger projects those that speak of precision."""
MAX_OPTIONS = 8
"""Declarations of one option. More are different programs' options of the same name."""
MAX_OPTION_FILES = 40
"""Files in which an option's name may stand before its declaration counts as unknown."""
