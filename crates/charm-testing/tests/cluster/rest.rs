//! The REST API: what the controllers leave for it, and for whom else.

use crate::world::{SLURMRESTD, World};
use charm_testing::{Hook, Model};

const CONFIGURATION: &str = "slurmconfig";

#[test]
fn a_copy_of_the_configuration_is_left_for_units_that_read_one() {
    for model in [Model::new(), Model::new().of_juju_3()] {
        let mut world = World::on(model);
        world.integrate();
        // A charm of others, which starts its daemon anew with every event.
        let silent = world.model.deploy("silent", SLURMRESTD).unwrap();
        let unit = world.model.add_unit(&silent).unwrap();
        let (theirs, seen_there) =
            world.model.integrate((&world.controllers, "slurmrestd"), (&silent, "slurmctld")).unwrap();
        let ours = world.add_rest();
        world.model.settle();
        let leader = "slurmctld/0".parse().unwrap();
        let relations = world.model.relations(&world.controllers, "slurmrestd");
        let [own] = relations.iter().filter(|relation| **relation != theirs).collect::<Vec<_>>()[..] else {
            panic!("{relations:?}")
        };
        assert!(world.model.app_bag(&theirs, &world.controllers).contains_key(CONFIGURATION));
        let copied = |relation| world.model.unit_bag(relation, &leader).contains_key(CONFIGURATION);
        assert!(!copied(&theirs) && copied(own));
        assert!(world.status(ours.as_str()).starts_with("active: REST API of slurmctld"), "{}", world.status("rest/0"));
        // A change reaches both bags, and the others hear of it once.
        world.model.set_option(&world.computes, "partition-config", "MaxTime=60".into()).unwrap();
        world.model.settle();
        let told = |bag: charm::Databag| bag[CONFIGURATION].to_lowercase().contains("maxtime");
        assert!(told(world.model.app_bag(own, &world.controllers)) && told(world.model.unit_bag(own, &leader)));
        assert!(told(world.model.app_bag(&theirs, &world.controllers)) && !copied(&theirs));
        // One that says only later that it reads copies, as after an upgrade.
        let says = [("unit_auth_key_ids".to_owned(), "[]".to_owned())].into();
        world.model.play_unit(&unit, &seen_there, &says).unwrap();
        world.model.run(&leader, &Hook::named("update-status")).unwrap();
        assert!(copied(&theirs));
        world.model.settle();
        world.assert_rest();
    }
}
