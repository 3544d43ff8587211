"""The command ``tirstep``.

`commands` declares the commands with their options and help, a module each; the work of each is in
a module of its own here that is imported when it runs, since TVM alone takes a second to import.
`documents` has the keys of ``--json``. Exit codes: 0 good, 1 a check failed, 2 wrong use.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

INTERRUPTED = 128 + 2  # as shells count the signals SIGINT and SIGPIPE
PIPE_CLOSED = 128 + 13


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, by default on the arguments of this process; return the exit code."""
    from .commands import call
    from .refusals import find_sentence
    from .streams import OutputError, cache_warnings_told, complain, standard_streams

    try:
        with standard_streams(), cache_warnings_told():
            return call(sys.argv[1:] if argv is None else list(argv))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return PIPE_CLOSED
    except OutputError as error:
        complain(str(error))
        return 2
    except Exception as error:
        sentence = find_sentence(error)
        if sentence is None:
            raise
        complain(sentence)
        return 2
