"""The command ``tirstep``, also as ``python -m tirstep``."""

import sys


def main() -> None:
    """Run the command line and exit with its code; 2 where TVM's version is not the right one."""
    code = 130  # of Ctrl-C, as shells count it, which may come while all this is imported
    try:
        import gc

        from tirstep.versions import UnsupportedVersions

        # What an import makes stays: by default a fifth of its time goes into looks for what does
        # not.
        gc.set_threshold(20_000, 20, 50)
        try:
            # Imported here: the command line is not part of what `import tirstep.__main__` costs.
            from tirstep.cli import main as run

            code = run()
        except UnsupportedVersions as error:
            print(error, file=sys.stderr)
            code = 2
    except KeyboardInterrupt:
        pass
    sys.exit(code)


if __name__ == "__main__":
    main()
