//! Machines that others have a hand in.

use super::Node;
use charm_testing::Hook;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_key_that_others_can_read_is_theirs_no_longer_after_any_hook() {
    let (node, _) = Node::joined();
    let path = node.machine.machine().path("/etc/slurm/slurm.jwks");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    node.hook(&Hook::named("update-status"));
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}
