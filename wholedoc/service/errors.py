"""What went wrong with a request, before a dialect gives it its own shape."""


class RequestError(Exception):
    """An answer other than 200: a status of HTTP, and what is wrong and what to do about it."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        self.message = message
        super().__init__(message)
