"""The user's own programs: what a text on the command line names, and what is found there.

`naming` reads the text, `loading` what stands there, `found` says what that is, `picking` makes
recipes of it, `databases` those of MetaSchedule, and `project` writes a new folder to start from.
 Nothing here imports TVM before something is loaded.
"""
