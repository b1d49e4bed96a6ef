//! Answers to requests, on recorded words of Slurm.
