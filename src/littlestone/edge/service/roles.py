"""Roles: who may do what. The public reads rules, a feeder writes rounds, an operator looks inside.

No role includes another: whoever feeds need not see mistakes, and whoever watches cannot write. A
token is made at the first start and kept in a file that only its owner may read.
"""

import hashlib
import hmac
import json
import os
import secrets
import stat
from pathlib import Path
from typing import Literal, TypeAlias

from littlestone.privacy.exact import BadParameter

Role: TypeAlias = Literal["feeder", "operator"]
ROLES: tuple[Role, ...] = ("feeder", "operator")


class Keys:
    """Tells the role of a token, in a time that does not depend on the token.

    >>> keys = Keys({"feeder": "one", "operator": "other"})
    >>> keys.role_of("other"), keys.role_of("another"), keys.role_of(None)
    ('operator', None, None)
    """

    def __init__(self, tokens: dict[Role, str]) -> None:
        self._hashes = {role: _hashed(token) for role, token in tokens.items()}

    def role_of(self, token: str | None) -> Role | None:
        """The role that a token gives; all are compared, whichever it is."""
        given = _hashed(token or "")
        found = [role for role in self._hashes if hmac.compare_digest(given, self._hashes[role])]
        return found[0] if found and token else None

    def role_in(self, authorization: str | None) -> Role | None:
        """Return the role that an `Authorization` header gives.

        >>> Keys({"feeder": "one", "operator": "other"}).role_in("Bearer one")
        'feeder'
        """
        scheme, _, token = (authorization or "").partition(" ")
        return self.role_of(token.strip()) if scheme.lower() == "bearer" else None


def _hashed(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def read_tokens(path: Path) -> dict[Role, str]:
    """The tokens in a file, which is made if there is none."""
    if not path.exists():
        _make(path)
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise BadParameter(
            f"{path} can be read by others: make new tokens (delete the file), or chmod 600 {path}"
        )
    try:
        found = json.loads(path.read_text("utf-8"))
        tokens: dict[Role, str] = {role: found[role] for role in ROLES}
    except (ValueError, KeyError, TypeError):
        tokens = {}
    if not all(isinstance(token, str) and len(token) >= 16 for token in tokens.values()):
        tokens = {}
    if len({*tokens.values()}) < len(ROLES):
        raise BadParameter(
            f"{path} is no file of tokens: it holds one of at least 16 letters for each of "
            f"{' and '.join(ROLES)}, as JSON. Delete it to have it made again"
        )
    return tokens


def _make(path: Path) -> None:
    """New tokens in a new file; whole, or not there."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    tokens = {role: secrets.token_urlsafe(32) for role in ROLES}
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(json.dumps(tokens, indent=2) + "\n")
    try:
        os.link(draft, path)
    finally:
        draft.unlink()
