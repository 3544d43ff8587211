"""The command ``tirstep``.

Each command has a module of its own, with its options, its help and its work; `app` names them.
`request` has the options that several share, `judging` the checks, `formats` the keys of
``--json``. Exit codes: 0 good, 1 a check failed, 2 wrong use, 3 nothing could be judged.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

INTERRUPTED = 128 + 2  # as shells count the signals SIGINT and SIGPIPE
PIPE_CLOSED = 128 + 13


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, by default on the arguments of this process; return the exit code."""
    from tirstep.printing import OutputError, print_error, standard_streams

    from .guarding import begin_guarded, is_guarded, run_guarded

    try:
        if argv is None and is_guarded(sys.argv[1:]):
            return run_guarded(sys.argv[1:])
        begin_guarded()
        from .app import call  # a tenth of a second, which a process that guards does without

        with standard_streams():
            return call(sys.argv[1:] if argv is None else list(argv))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return PIPE_CLOSED
    except OutputError as error:
        print_error(str(error))
        return 2
    except (Exception, SystemExit) as error:  # a user's schedule may end the process, too
        from .wrong_use import find_sentence

        sentence = find_sentence(error)
        if sentence is None:
            raise
        print_error(sentence)
        return 2
