"""Makes a journal small: the least that a strict replay needs to come to the same end, with secrets masked."""
