# The same names as `cargo xtask`; `just` alone lists them.

_default:
    @just --list

# Install what the other recipes need on this machine
setup:
    cargo xtask setup

# Build the charms and juju-local into dist/
pack *arguments:
    cargo xtask pack {{arguments}}

# Deploy a controller and two nodes on juju-local and run a job (`just demo --rm` takes it down)
demo *arguments:
    cargo xtask demo {{arguments}}

# Run all tests, or one tier: unit, process, fuzz, juju-local, cluster, conformance
test *arguments:
    cargo xtask test {{arguments}}

# Random events under a stream of jobs (`just soak --minutes 60`)
soak *arguments:
    cargo xtask soak {{arguments}}

# Formatting, lints, rules of the source tree
tidy:
    cargo xtask tidy

# Measure each part beside its goals and its peers, and write docs/bench/ (parts: conf, dispatch, juju-local)
bench *arguments:
    cargo xtask bench {{arguments}}

# Exactly what CI runs
check:
    .ci/run

# Rewrite the formatting
format:
    cargo fmt --all
