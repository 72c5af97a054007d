"""``python -m wholedoc`` is ``wholedoc``; ``torchrun -m -- wholedoc train …`` shares the work."""

from wholedoc.cli import main

main()
