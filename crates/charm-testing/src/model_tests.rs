//! What the made-up model accepts and what it refuses, in pairs, and what becomes of writes.

use crate::{Hook, Impossible, Model};
use charm::tools::{Port, Refusal, SecretContent};
use charm::{AppName, Databag, RelationId, Tools, UnitName};
use serde_json::json;
use std::process::ExitCode;

const DATABASE: &str = "
provides: {db: {interface: sql}}
peers: {database-peer: {interface: database-peer}}
config: {options: {size: {type: int, default: 4}, name: {type: string}}}
actions: {dump: {}}
";
const WEB: &str = "requires: {db: {interface: sql}, cache: {interface: redis}}";

struct World {
    model: Model,
    database: AppName,
    web: AppName,
    leader: UnitName,
    relation: RelationId,
}

fn world() -> World {
    let model = Model::new();
    let (database, web) = (model.deploy("database", DATABASE).unwrap(), model.deploy("web", WEB).unwrap());
    let leader = model.add_unit(&database).unwrap();
    model.add_unit(&web).unwrap();
    let (relation, _) = model.integrate((&database, "db"), (&web, "db")).unwrap();
    World { model, database, web, leader, relation }
}

fn bag(entries: &[(&str, &str)]) -> Databag {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Runs a charm on a unit that sends what it collected and ends with `code`.
fn run(model: &Model, unit: &UnitName, code: ExitCode, charm: impl FnOnce(&Tools)) -> crate::Dispatched {
    let hook = Hook::named("config-changed");
    let dispatch = |_, tools: Tools| {
        charm(&tools);
        tools.writer().send().unwrap();
        code
    };
    model.dispatch(unit, &[], &hook, dispatch).unwrap()
}

#[test]
fn options_are_declared_and_of_their_type() {
    let World { model, database, .. } = world();
    assert_eq!(model.set_option(&database, "size", json!(8)), Ok(()));
    let refused = |option, value| model.set_option(&database, option, value).unwrap_err().to_string();
    assert_eq!(refused("sise", json!(8)), "impossible: unknown option \"sise\"");
    assert_eq!(refused("size", json!("8")), "impossible: option \"size\" expected int, got \"8\"");
}

#[test]
fn endpoints_fit_or_are_not_integrated() {
    let World { model, database, web, .. } = world();
    let other = model.deploy("other", WEB).unwrap();
    assert!(model.integrate((&database, "db"), (&other, "db")).is_ok());
    for (one, two) in
        [((&database, "db"), (&web, "db")), ((&database, "db"), (&web, "cache")), ((&web, "db"), (&other, "db"))]
    {
        assert!(model.integrate(one, two).is_err(), "{one:?} {two:?}");
    }
    assert!(model.integrate((&database, "nosuch"), (&web, "db")).is_err());
}

#[test]
fn hooks_belong_to_the_unit_they_run_on() {
    let World { model, leader, relation, web, .. } = world();
    let dispatch = |hook: &Hook| model.dispatch(&leader, &[], hook, |_, _| ExitCode::SUCCESS).map(drop);
    assert_eq!(dispatch(&Hook::created(&relation, &web)), Ok(()));
    assert!(dispatch(&Hook::created(&"db:99".parse().unwrap(), &web)).is_err());
    assert_eq!(dispatch(&Hook::action("dump", json!({}))), Ok(()));
    assert!(dispatch(&Hook::action("drop", json!({}))).is_err());
    let nobody: UnitName = "database/9".parse().unwrap();
    let outcome: Result<_, Impossible> =
        model.dispatch(&nobody, &[], &Hook::named("install"), |_, _| ExitCode::SUCCESS).map(drop);
    assert!(outcome.is_err());
}

#[test]
fn what_a_failed_dispatch_wrote_is_dropped_but_its_status_stays() {
    let World { model, leader, relation, database, .. } = world();
    let charm = |tools: &Tools| {
        tools.writer().relation_set_app(&relation, &bag(&[("a", "1")]));
        tools.writer().open_port(Port::tcp(80));
        tools.writer().status_set(&charm::Status::waiting("for rain")).unwrap();
    };
    let done = run(&model, &leader, ExitCode::FAILURE, charm);
    assert!(!done.succeeded && done.writes().len() == 3, "{done:#?}");
    assert!(model.app_bag(&relation, &database).is_empty() && model.ports(&leader).is_empty());
    assert_eq!(model.status(&leader), Some(charm::Status::waiting("for rain")));
    run(&model, &leader, ExitCode::SUCCESS, charm);
    assert_eq!(model.app_bag(&relation, &database), bag(&[("a", "1")]));
    assert_eq!(model.ports(&leader), ["80/tcp"]);
    let done = run(&model, &leader, ExitCode::SUCCESS, |tools| {
        tools.writer().relation_set_app(&relation, &bag(&[("a", "1")]));
    });
    assert!(done.writes().is_empty(), "{done:#?}");
}

#[test]
fn only_the_leader_writes_and_reads_for_its_application() {
    let World { model, relation, database, .. } = world();
    let second = model.add_unit(&database).unwrap();
    run(&model, &second, ExitCode::SUCCESS, |tools| {
        assert!(!tools.is_leader().unwrap());
        assert_eq!(tools.relation_get_own_app(&relation).unwrap(), None);
        let error = tools.writer().secret_add("l", "d", &SecretContent::default().with("key", "x")).unwrap_err();
        assert_eq!(error.refusal(), Some(Refusal::NotLeader));
        tools.writer().relation_set_app(&relation, &bag(&[("a", "1")]));
    });
    assert!(model.app_bag(&relation, &database).is_empty());
    model.elect(&second).unwrap();
    run(&model, &second, ExitCode::SUCCESS, |tools| tools.writer().relation_set_app(&relation, &bag(&[("a", "1")])));
    assert_eq!(model.app_bag(&relation, &database), bag(&[("a", "1")]));
}

#[test]
fn a_secret_is_read_by_whom_it_was_granted_to_and_only_while_the_relation_lives() {
    let World { model, relation, database, web, leader } = world();
    let content = SecretContent::default().with("key", "material");
    let mut secret = None;
    run(&model, &leader, ExitCode::SUCCESS, |tools| {
        let id = tools.writer().secret_add("l", "d", &content).unwrap();
        tools.writer().secret_grant(&id, &relation);
        secret = Some(id);
    });
    let secret = secret.unwrap();
    assert!(model.grants(&database, "l").is_empty(), "a grant beside its secret is lost");
    run(&model, &leader, ExitCode::SUCCESS, |tools| tools.writer().secret_grant(&secret, &relation));
    assert_eq!(model.grants(&database, "l"), [relation.number()]);
    let reader: UnitName = format!("{web}/0").parse().unwrap();
    let reads = |expected: bool| {
        run(&model, &reader, ExitCode::SUCCESS, |tools| {
            let answer = tools.secret_get(secret.as_str(), "consumer").unwrap();
            assert_eq!(matches!(answer, charm::tools::SecretAnswer::Content(_)), expected, "{answer:?}");
        });
    };
    reads(true);
    model.end(&relation);
    reads(false);
}
