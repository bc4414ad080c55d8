"""Mirror a topic again from the source's start, after its mirror topic was deleted or contradicts the journal."""
