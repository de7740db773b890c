"""What runsc says when it fails, as sentences for the user.

Its text is English prose that changes with its versions: what is not recognised is passed on.
"""

from __future__ import annotations

import re

#: (pattern in runsc's last words, sentence). The first that matches counts.
_CAUSES = [
    (
        r'no server FD available for filesystem with unique ID "([^"]+)"',
        r"The folder \1 was mounted into the sandbox when the snapshot was taken, and is not now.",
    ),
    (
        r"unexpected EOF|mismatched segment|corrupt|inconsistent|checksum|hash mismatch|"
        r"invalid (?:metadata|header|hash)|bad magic|short read",
        "The image is cut off or damaged.",
    ),
    (
        r"(?i)feature.?set|incompatible cpu|cpu features?",
        "The processor lacks features of the one on which the snapshot was taken.",
    ),
    (
        r"(?i)version mismatch|runsc version|incompatible version",
        "The snapshot was taken by another version of runsc.",
    ),
    (
        r"failed to find container|does not exist in (?:the )?state",
        "The sandbox has ended before that.",
    ),
    (
        r"(?i)no space left",
        "The disk is full.",
    ),
    (
        r"(?i)cannot allocate memory|out of memory",
        "There is not enough memory.",
    ),
    (
        r"(?i)no such file or directory",
        "A file or folder that the process had open is gone; runsc does not say which.",
    ),
    (
        r"(?i)permission denied|operation not permitted",
        "This machine does not let runsc make a sandbox (a container needs SYS_ADMIN for it), or a "
        "file that the process has open cannot be read any more.",
    ),
    (
        r"(?i)waiting for sandbox to start|client sync file|cannot create sandbox",
        "The sandbox did not come up: a folder that is mounted into it may be gone.",
    ),
]


def sentence(words: str) -> str:
    """The cause that runsc's last words name, with the words; the words alone if it is unknown."""
    words = words.strip() or "it said nothing"
    for pattern, said in _CAUSES:
        found = re.search(pattern, words)
        if found:
            return f"{found.expand(said)} (runsc: {_short(words)})"
    return f"runsc says: {_short(words)}"


def _short(words: str) -> str:
    """Without the chain of what it was doing, and without the name of a sandbox."""
    words = re.sub(r'(?:[a-z ]+: )*restoring container "[^"]*": ', "", words)
    return re.sub(r"gkews-[0-9a-f]{32}", "the sandbox", words)
