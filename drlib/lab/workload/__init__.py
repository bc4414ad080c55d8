"""The workload of a lab, as drills, lessons, incidents and analyses put it there.

`applications.LabApplications` starts producers and consumers by name, `mirrors` the workers of `drlib mirror` (`MirrorWorker`
for a given file, `LabMirrors` with a file of its own), `topics` creates topics, writes records, reads log ends and commits
group positions.
"""
