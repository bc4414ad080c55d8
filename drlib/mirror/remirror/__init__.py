"""What it means to mirror a topic again from the source's start, and the request for it (`drlib remirror`)."""
