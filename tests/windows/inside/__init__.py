"""What runs in the Windows Python: checks that need a cluster, and the programs that are interrupted there."""
