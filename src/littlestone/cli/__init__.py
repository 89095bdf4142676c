"""The edge: talks to the world. Command line, files, pictures.

Its law: thin. It reads, asks the inner rooms, and writes; it does no mathematics.
"""
