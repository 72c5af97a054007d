"""The one error a user is meant to see."""


class UserError(Exception):
    """Something only the user can put right: says what happened, where, and what to do.

    The command line prints it as one line and exits with code 2; no traceback.
    """

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        self.what = what
        self.where = where
        self.fix = fix
        super().__init__(what)

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f"; {self.fix}" if self.fix else ""
        return f"{place}{self.what}{advice}"
