"""The mirror's workers as Spark tasks: the driver, what runs in a task, and the line between the two."""
