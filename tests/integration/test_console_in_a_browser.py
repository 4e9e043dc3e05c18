"""The web console in a real browser: every control that users click, and the rights that it checks."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, AdminClient, ResourcePatternType
from confluent_kafka.admin import ResourceType as Resource
from playwright.sync_api import Browser, Page, expect

from pybroker.testing import Broker
from tests.support.browsers import chromium
from tests.support.eventually import eventually, succeeds
from tests.support.telemetry import Pusher, gauge, point, report
from tests.support.wire import WireClient

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
NOWHERE = "http://127.0.0.1:0"
HOSTILE = "<img src=x onerror=alert(1)>"
PATIENCE_MS = 60_000


def client(broker: Broker, **more: object) -> dict[str, object]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": "secret",
        **more,
    }


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with logins. User `clerk` may read `orders`, `auditor` may only describe it."""
    protocol, users = "SASL_PLAINTEXT", 'user_admin="secret" user_clerk="secret" user_auditor="secret"'
    config = {
        "listeners": f"{protocol}://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "security.inter.broker.protocol": protocol,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{MODULE} required {users};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
        "console.listeners": NOWHERE,
        "metrics.listeners": NOWHERE,
    }
    with Broker(config) as running:
        producer = Producer(client(running, **{"enable.idempotence": True}))
        admin = AdminClient(client(running))
        orders = Resource.TOPIC, "orders", ResourcePatternType.LITERAL
        entries = [
            AclBinding(*orders, user, "*", operation, AclPermissionType.ALLOW)
            for user, operation in (("User:clerk", AclOperation.READ), ("User:auditor", AclOperation.DESCRIBE))
        ]
        for future in admin.create_acls(entries).values():
            future.result(60)
        for number in range(40):
            producer.produce("orders", json.dumps({"order": number}), f"key-{number}", headers={"trace": HOSTILE})
        producer.produce("hidden", "of nobody's business")
        assert producer.flush(60) == 0
        reader = Consumer(client(running, **{"group.id": "billing", "auto.offset.reset": "earliest"}))
        reader.subscribe(["orders"])
        record = reader.poll(60)
        assert record is not None
        assert record.error() is None
        reader.commit(asynchronous=False)
        reader.close()
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def address(broker: Broker) -> str:
    """The URL of the console, once it accepts connections; it may start a moment after the broker."""
    ((host, port),) = re.findall(r"The console is at http://(\S+):(\d+)", broker.log)
    eventually(
        lambda: socket.create_connection((host, int(port))).close(),
        lambda: broker.log,
        retried=ConnectionRefusedError,
        until=succeeds,
    )
    return f"http://{host}:{port}"


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """A page without a login. The test fails on errors in the browser's console."""
    context = browser.new_context(base_url=address, viewport={"width": 1280, "height": 800})
    context.set_default_timeout(PATIENCE_MS)
    found = context.new_page()
    complaints: list[str] = []
    found.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    found.on("pageerror", lambda error: complaints.append(str(error)))
    yield found
    context.close()
    # the browser also reports responses with status 409, which are the broker's errors
    assert [each for each in complaints if "status of 409" not in each] == []


def log_in(page: Page, path: str = "/", user: str = "admin") -> None:
    page.goto(path)
    page.get_by_label("User").fill(user)
    page.get_by_label("Password").fill("secret")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("button", name="Log out")).to_be_visible()


def check(page: Page) -> None:
    """Assert that axe finds no serious or critical violation on the page."""
    found = Axe().run(page).response["violations"]
    serious = [(each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in ("serious", "critical")]
    assert serious == [], page.url


def test_topics_and_groups_are_managed_by_forms(page: Page) -> None:
    """Create a topic, send a record that a tail shows, set a config, delete the topic; reset a group's offsets."""
    log_in(page, "/topics")
    page.get_by_text("Create a topic").click()
    page.get_by_label("Name").fill("made-here")
    page.get_by_label("Partitions").fill("1")
    check(page)
    page.get_by_role("button", name="Create").click()
    expect(page.locator("p.done")).to_have_text("The topic was created.")

    page.get_by_role("link", name="Change retention.ms").click()
    page.get_by_label("Value of retention.ms").fill("-7")
    page.get_by_role("button", name="Set").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("retention.ms")  # the broker's reason
    page.go_back()
    page.get_by_label("Value of retention.ms").fill("3600000")
    page.get_by_role("button", name="Set").click()
    expect(page.locator("tr.own", has_text="retention.ms")).to_contain_text("3600000")
    check(page)

    with page.context.expect_page() as opened:
        page.evaluate("open(document.querySelector('main a[href$=messages]').href)")
    follower = opened.value
    follower.get_by_role("button", name="Follow").click()
    expect(follower.locator("#following")).to_have_text("Waits for records…")

    page.get_by_role("link", name="Send a record").click()
    page.get_by_role("textbox", name="Key").fill("a key")
    page.get_by_label("Value", exact=True).fill(f'{{"note": "{HOSTILE}"}}')
    page.get_by_label("Headers, as lines NAME: VALUE").fill("kind: test")
    page.get_by_role("button", name="Send").click()
    expect(page.locator("p.done")).to_have_text("The record was sent.")
    expect(page.locator("#messages tr")).to_have_count(1)
    expect(follower.locator("#messages")).to_contain_text(HOSTILE)
    expect(follower.locator("#messages img")).to_have_count(0)
    follower.get_by_role("button", name="Stop").click()
    follower.close()

    page.get_by_role("link", name="made-here").click()
    page.get_by_text("Delete the topic").click()
    page.get_by_label("Type the name to confirm").fill("made-here")
    page.get_by_role("button", name="Delete it with all its records").click()
    expect(page.locator("p.done")).to_have_text("The topic was deleted.")
    expect(page.locator("#topics")).not_to_contain_text("made-here")

    page.get_by_role("link", name="Groups").click()
    page.get_by_role("link", name="billing").click()
    expect(page.locator("[data-sample=lag] output")).to_have_text("39 records")
    page.locator("select[name=to]").select_option("offset")
    page.get_by_label("Which offset or time").fill("30")
    check(page)
    page.get_by_role("button", name="Reset").click()
    expect(page.locator("p.done")).to_have_text("The offsets were reset.")
    expect(page.locator("dl.facts")).to_contain_text("Lag10")


def test_access_is_changed_by_keyboard(page: Page) -> None:
    """Add an ACL entry, a password and a quota. Deleting the entry asks first and can be cancelled."""
    log_in(page, "/access")

    def opened(word: str) -> None:
        summary = page.locator("summary", has_text=word)
        summary.focus()
        page.keyboard.press("Enter")
        expect(summary.locator("..")).to_have_attribute("open", "")
        check(page)

    opened("Add an entry")
    page.get_by_label("Principal").fill("User:keyed")
    page.get_by_label("Operation").select_option("read")
    page.get_by_label("Resource name, * for all").fill("orders")
    page.keyboard.press("Enter")
    expect(page.locator("p.done")).to_have_text("The access control entry was added.")

    opened("Set a user's password")
    page.get_by_label("Name of the user").fill("keyed")
    page.get_by_label("Mechanism").select_option("SCRAM-SHA-256")
    for label in ("Password of the user", "Repeat the password"):
        assert page.get_by_label(label).get_attribute("type") == "password"
        page.get_by_label(label).fill("between us")
    page.keyboard.press("Enter")
    expect(page.locator("p.done")).to_have_text("The user can log in with that password.")
    assert "between us" not in page.content()

    opened("Set a quota")
    of_user = page.get_by_role("group", name="Of user")
    of_user.get_by_label("Which").select_option("named")
    of_user.get_by_label("Name", exact=True).fill("keyed")
    page.get_by_label("Value", exact=True).fill("4096")
    page.keyboard.press("Enter")
    expect(page.locator("p.done")).to_have_text("The quota was set.")
    check(page)

    asked = page.get_by_role("link", name="Delete the entry: User:keyed")
    asked.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Cancel")).to_be_focused()
    check(page)
    page.keyboard.press("Enter")
    expect(asked).to_be_visible()
    asked.click()
    page.get_by_role("button", name="Delete it").click()
    expect(page.locator("p.done")).to_have_text("The access control entry was deleted.")
    expect(asked).to_have_count(0)


def test_client_metrics_are_shown(page: Page, broker: Broker) -> None:
    """Add a subscription by keyboard, and a client that it matches pushes. Removing it asks first."""
    log_in(page, "/clients")
    expect(page.locator("main")).to_contain_text("No subscriptions: clients send no metrics.")
    summary = page.locator("summary", has_text="Subscribe to metrics")
    summary.focus()
    page.keyboard.press("Enter")
    check(page)
    page.get_by_label("Name of the subscription").fill("tills")
    page.get_by_label("Metric prefixes").fill("*")
    page.get_by_label("Interval, ms").fill("100")
    page.get_by_label("Clients that match").fill("client_id=till-.*")
    page.keyboard.press("Enter")
    expect(page.locator("p.done")).to_have_text("The subscription was saved.")

    host, _, port = broker.listeners["PLAINTEXT"].partition(":")
    with WireClient(host, int(port), client_id="till-1") as connected:
        pusher = Pusher(connected)
        pusher.push(report(gauge("org.apache.kafka.queue.size", point(1234.5, topic=HOSTILE))))
        page.reload()
        row = page.locator("#pushing tbody tr", has_text="till-1")
        expect(row).to_contain_text("tills")
        expect(row.locator("td").last).to_have_text("NONE")
        check(page)
        row.get_by_role("link", name=pusher.instance_id).click()
        expect(page.locator("#pushed tbody tr")).to_have_count(1)
        expect(page.locator("#pushed tbody tr")).to_contain_text(f"topic={HOSTILE}")
        expect(page.locator("#pushed")).to_contain_text("1,234.5")
        check(page)
    page.go_back()
    page.get_by_role("link", name="Remove the subscription tills").click()
    check(page)
    page.get_by_role("button", name="Remove").click()
    expect(page.locator("p.done")).to_have_text("The subscription was removed.")


def test_links_lead_from_a_topic_to_bytes_of_a_record(page: Page) -> None:
    """A field and its bytes are highlighted together."""
    log_in(page, "/topics/orders/messages?word=key-17")
    expect(page.locator("#messages tr")).to_have_count(1)
    expect(page.locator("#messages")).to_contain_text('"order": 17')
    check(page)
    page.get_by_role("link", name="orders").click()
    page.locator("table.full td a").first.click()
    check(page)
    page.get_by_label("Find offset").fill("17")
    page.get_by_role("button", name="Find, step by step").click()
    page.get_by_role("link", name="The batch at byte").click()
    check(page)
    page.locator("section[aria-labelledby=records] tbody a").first.click()
    check(page)
    field = page.locator("table.fields th a", has_text="timestampDelta")
    field.hover()
    expect(page.locator("table.hex .lit").first).to_be_visible()
    assert page.locator("table.hex .lit").first.get_attribute("title") == "timestampDelta"


def test_every_other_page_is_accessible_in_both_themes(page: Page) -> None:
    """The axe checks run in the dark theme; the button for the light one works after a reload."""
    page.emulate_media(color_scheme="dark")
    log_in(page)
    expect(page.locator("[data-sample$=round_trip_seconds] output")).to_contain_text("ms")
    expect(page.locator("[data-sample*=requests] polyline")).to_have_attribute("points", re.compile(r"\d+,\d+"))
    check(page)
    for name, text in (
        ("Transactions", "There are no transactional ids."),
        ("Access", "User:clerk"),
        ("Clients", "Subscriptions"),
        ("Log", "The console is at"),
        ("Storage", "hidden-0"),
    ):
        page.get_by_role("navigation", name="Console").get_by_role("link", name=name).click()
        expect(page.locator("main")).to_contain_text(text)
        check(page)
    page.get_by_role("button", name="Light", exact=True).click()
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_keyboard_skips_the_menu(page: Page) -> None:
    """The first Tab reaches the link past the menu, also on the page after a login."""
    page.goto("/storage")
    check(page)
    page.get_by_label("User").focus()
    page.keyboard.type("admin")
    page.keyboard.press("Tab")
    page.keyboard.type("secret")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Storage")).to_be_visible()  # the page that the login interrupted
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Tab")
    page.keyboard.type("orders")
    expect(page.locator("#folders tbody tr:visible")).to_have_count(1)


def test_user_sees_only_topics_with_rights(page: Page) -> None:
    """Pages, files and forms of other topics are refused by the broker."""
    log_in(page, "/topics", user="clerk")
    expect(page.locator("#topics tbody tr")).to_have_count(1)
    page.get_by_role("link", name="orders").click()
    page.get_by_role("link", name="Messages").click()
    expect(page.locator("#messages tr")).to_have_count(40)
    page.get_by_role("navigation", name="Console").get_by_role("link", name="Storage").click()
    expect(page.locator("#folders tbody tr")).to_have_count(1)
    for path, status in (
        ("/storage/0/orders-0", 200),
        ("/storage/0/hidden-0", 404),
        ("/storage/0/__consumer_offsets-0", 404),
        ("/topics/hidden", 403),
        ("/log", 403),
        ("/clients", 200),
        (f"/clients/{'A' * 22}", 403),
        ("/access", 200),
    ):
        answer = page.request.get(path)
        assert (path, answer.status) == (path, status)
        assert "nobody's business" not in answer.text()
    token = page.locator("input[name=token]").first.input_value()
    forms = (("/topics", {"name": "new"}), ("/topics/orders/messages", {"value": "x"}))
    for path, form in forms:
        assert page.request.post(path, form={**form, "token": token}).status == 403
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert page.request.get("/topics", max_redirects=0).status == 303


def test_messages_without_read_access_are_an_error(page: Page) -> None:
    """An empty list would be misleading for a user who may describe the topic but not read it."""
    log_in(page, "/topics/orders", user="auditor")
    answer = page.request.get("/topics/orders/messages")
    assert (answer.status, "authorization failed" in answer.text()) == (403, True)
    event = page.request.get("/topics/orders/tail?partition=0&offset=0")
    assert (event.text().count("event: problem"), "authorization failed" in event.text()) == (1, True)


def test_wrong_passwords_and_forged_forms_are_rejected(page: Page) -> None:
    """A form from another origin does nothing, even with a session's cookie."""
    page.goto("/")
    page.get_by_label("User").fill("admin")
    page.get_by_label("Password").fill("wrong")
    with page.expect_response("**/login") as answer:
        page.get_by_role("button", name="Log in").click()
    assert answer.value.status == 200
    expect(page.get_by_role("alert")).to_have_text("User or password is wrong")
    log_in(page)
    for headers in ({"origin": "http://evil.example"}, {"sec-fetch-site": "same-site"}, {}):
        answer_to_forged = page.request.post("/topics", form={"name": "forged", "token": "guess"}, headers=headers)
        assert answer_to_forged.status == 403
    assert page.request.get("/topics/forged").status == 404
