"""The command line: one module a verb. Each reads its arguments, calls the library, and prints.

What takes long to import is in the modules named `..._run`, and imported when the verb runs.
"""
