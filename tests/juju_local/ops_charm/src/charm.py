"""A charm as people write them with ops: relations, a peer relation, a secret, actions, stored state, storage."""
import pathlib

import ops

VERSION = "1"
LABEL = "password"
SUPPLIED = "supplied-password"


class Pantry(ops.CharmBase):
    """Gives a password to whoever it is related to, and takes one from another of its kind."""

    _stored = ops.StoredState()

    def __init__(self, framework):
        super().__init__(framework)
        self._stored.set_default(events=[], passwords=[], starts=0)
        observe = framework.observe
        observe(self.on.install, self._note)
        observe(self.on.start, self._on_start)
        observe(self.on.config_changed, self._note)
        observe(self.on.upgrade_charm, self._on_upgrade)
        observe(self.on.leader_elected, self._on_leader_elected)
        observe(self.on.collect_unit_status, self._on_collect_status)
        observe(self.on.shelf_storage_attached, self._on_shelf)
        observe(self.on.store_relation_created, self._on_store)
        observe(self.on.store_relation_departed, self._note)
        observe(self.on.supply_relation_changed, self._on_supply)
        observe(self.on.supply_relation_broken, self._note)
        observe(self.on.crew_relation_joined, self._on_crew)
        observe(self.on.crew_relation_changed, self._on_crew)
        observe(self.on.secret_changed, self._on_secret_changed)
        observe(self.on.secret_remove, self._on_secret_remove)
        observe(self.on.stop, self._note)
        observe(self.on.greet_action, self._on_greet)
        observe(self.on.refuse_action, self._on_refuse)
        observe(self.on.break_action, self._on_break)
        observe(self.on.rotate_action, self._on_rotate)
        observe(self.on.remember_action, self._on_remember)
        observe(self.on.look_action, self._on_look)

    def _note(self, event):
        self._stored.events.append(event.handle.kind)

    def _on_start(self, event):
        self._note(event)
        self._stored.starts += 1
        self.unit.set_workload_version(VERSION)
        self.unit.set_ports(8080)

    def _on_upgrade(self, event):
        self._note(event)
        self.unit.set_workload_version(VERSION)

    def _on_shelf(self, event):
        self._note(event)
        (pathlib.Path(event.storage.location) / "label").write_text(self.unit.name)

    def _on_leader_elected(self, event):
        self._note(event)
        # Its first secret is there before anybody asks for it, so that adding and granting are two hooks.
        self.app.add_secret({"password": "first"}, label=LABEL)

    def _on_store(self, event):
        self._note(event)
        if self.unit.is_leader():
            secret = self.model.get_secret(label=LABEL)
            secret.grant(event.relation)
            event.relation.data[self.app]["secret"] = secret.get_info().id

    def _on_supply(self, event):
        self._note(event)
        uri = event.relation.data[event.app].get("secret") if event.app else None
        if uri:
            secret = self.model.get_secret(id=uri, label=SUPPLIED)
            self._stored.passwords.append(secret.get_content()["password"])

    def _on_secret_changed(self, event):
        self._note(event)
        # Its owner reads it too, and keeps the old revision alive until it has taken up the new one.
        password = event.secret.get_content(refresh=True)["password"]
        if event.secret.label == SUPPLIED:
            self._stored.passwords.append(password)

    def _on_secret_remove(self, event):
        self._note(event)
        event.remove_revision()

    def _on_crew(self, event):
        self._note(event)
        event.relation.data[self.unit]["unit"] = self.unit.name
        if self.unit.is_leader():
            names = sorted(event.relation.data[unit].get("unit", "?") for unit in event.relation.units)
            event.relation.data[self.app]["others"] = ",".join(names)

    def _on_collect_status(self, event):
        passwords = list(self._stored.passwords)
        if self.model.get_relation("supply") and not passwords:
            event.add_status(ops.WaitingStatus("for a password"))
        event.add_status(ops.ActiveStatus(f"password {passwords[-1]}" if passwords else ""))

    def _on_greet(self, event):
        text = " ".join([str(self.config["greeting"]), *[event.params["name"]] * event.params["times"]])
        event.log("about to greet")
        event.set_results({"text": text.upper() if self.config["loud"] else text, "by": {"unit": self.unit.name}})

    def _on_refuse(self, event):
        event.fail("there is nothing left")

    def _on_break(self, event):
        raise RuntimeError("the shelf fell down")

    def _on_rotate(self, event):
        self.model.get_secret(label=LABEL).set_content({"password": event.params["password"]})

    def _on_remember(self, event):
        stored = self._stored
        event.set_results(
            {"events": ",".join(stored.events), "passwords": ",".join(stored.passwords), "starts": stored.starts}
        )

    def _on_look(self, event):
        crew = self.model.get_relation("crew")
        event.set_results(
            {
                "planned": self.app.planned_units(),
                "others": crew.data[self.app].get("others", ""),
                "address": str(self.model.get_binding("store").network.bind_address),
                "ports": ",".join(str(port.port) for port in self.unit.opened_ports()),
                "shelf": str(self.model.storages["shelf"][0].location),
                "model": self.model.name,
                "version": VERSION,
            }
        )


if __name__ == "__main__":
    # Where stored state goes is the choice of whoever packs the charm: a file beside it, or Juju.
    ops.main(Pantry, use_juju_for_storage=pathlib.Path("state-in-juju").exists())
