"""The service: a stored learner behind HTTP. It never imports the lab.

One thread writes the store, one event loop answers. Nothing is published before it is on disk;
nothing that is private leaves without a token; nothing from the data is logged.
"""
