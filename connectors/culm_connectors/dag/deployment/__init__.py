"""What an operator does to the DAGs of a whole deployment: its topics, not one folder (reference 9, R33).

`reading`: all of them as a folder, to export it and to see what nothing needs. `writing`: an import, and what
is dropped or blocked.
"""
