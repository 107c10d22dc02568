//! Containers over REST: what a create makes, what it refuses, and what is shown of it.

use hyper::Method;
use mapwright_testbed::Kind;
use serde_json::{Value, json};

use crate::dcm::{
    CONTAINERS, Dcm, created, faults, labels, name_of, problem, web, web_with_ports, with, without,
};

fn example() -> Value {
    json!({ "spec": {
        "service_type": "container",
        "metadata": { "name": "web-app" },
        "image": { "reference": "quay.io/myapp:v1.2" },
        "resources": { "cpu": { "min": 1, "max": 2 }, "memory": { "min": "1GB", "max": "2GB" } },
        "process": {
            "command": ["/app/start"],
            "args": ["--config", "/etc/config.yaml"],
            "env": [{ "name": "ENV", "value": "production" }, { "name": "LOG_LEVEL", "value": "info" }],
        },
        "network": { "ports": [
            { "container_port": 8080, "visibility": "external" },
            { "container_port": 9090, "visibility": "internal" },
        ] },
    } })
}

#[tokio::test]
async fn a_create_without_an_id_answers_with_the_whole_instance() {
    let dcm = Dcm::start("c01").await;
    let answer = created(&dcm.post(CONTAINERS, &example()).await);
    let id = answer["id"].as_str().unwrap();
    assert!(uuid::Uuid::parse_str(id).is_ok(), "{id}");
    let deployment = dcm.only(&Kind::DEPLOYMENT, id).await;
    let service = dcm.only(&Kind::SERVICE, id).await;
    let expected = json!({
        "id": id,
        "path": format!("containers/{id}"),
        "status": "PENDING",
        "status_message": answer["status_message"],
        "create_time": answer["create_time"],
        "update_time": answer["create_time"],
        "spec": with(example()["spec"].clone(), "/metadata/namespace", json!(dcm.objects.namespace())),
        "service": {
            "name": name_of(&service),
            "cluster_ip": service["spec"]["clusterIP"],
            "type": "LoadBalancer",
            "ports": [
                { "port": 8080, "target_port": 8080, "protocol": "TCP" },
                { "port": 9090, "target_port": 9090, "protocol": "TCP" },
            ],
        },
    });
    assert_eq!(answer, expected);
    assert!(answer["create_time"].as_str().unwrap().ends_with('Z'));
    let message = answer["status_message"].as_str().unwrap();
    assert!(message.ends_with("; internal ports reachable from outside: 9090"), "{message}");
    assert!(name_of(&deployment).starts_with("web-app-") && name_of(&service).starts_with("web-app-"));
}

#[tokio::test]
async fn a_deployment_is_what_the_spec_says_and_nothing_else() {
    let dcm = Dcm::start("c02").await;
    let spec = with(example()["spec"].clone(), "/metadata/labels", json!({ "team": "a" }));
    dcm.container("my-app", spec).await;
    let deployment = dcm.only(&Kind::DEPLOYMENT, "my-app").await;
    let ours = labels("container", "my-app");
    let all = with(ours.clone(), "/team", json!("a"));
    assert_eq!(deployment["metadata"]["labels"], all);
    assert_eq!(deployment["metadata"]["generateName"], "web-app-");
    assert!(name_of(&deployment).starts_with("web-app-"));
    assert_eq!(deployment["spec"]["replicas"], 1);
    assert_eq!(deployment["spec"]["selector"], json!({ "matchLabels": ours }));
    let template = &deployment["spec"]["template"];
    assert_eq!(template["metadata"]["labels"], all);
    let expected = json!([{
        "name": "web-app",
        "image": "quay.io/myapp:v1.2",
        "command": ["/app/start"],
        "args": ["--config", "/etc/config.yaml"],
        "env": [{ "name": "ENV", "value": "production" }, { "name": "LOG_LEVEL", "value": "info" }],
        "ports": [{ "containerPort": 8080, "protocol": "TCP" }, { "containerPort": 9090, "protocol": "TCP" }],
        "resources": {
            "requests": { "cpu": "1", "memory": "1Gi" },
            "limits": { "cpu": "2", "memory": "2Gi" },
        },
    }]);
    let mut containers = template["spec"]["containers"].clone();
    // What the API server fills in.
    for key in ["imagePullPolicy", "terminationMessagePath", "terminationMessagePolicy"] {
        containers[0].as_object_mut().unwrap().remove(key).unwrap();
    }
    assert_eq!(containers, expected);
}

#[tokio::test]
async fn every_legal_id_is_taken_as_it_is() {
    let dcm = Dcm::start("c03").await;
    let long = "a".repeat(63);
    for id in ["a", "1abc", long.as_str(), "123e4567-e89b-12d3-a456-426614174000"] {
        let answer = dcm.container(id, web()).await;
        assert_eq!(answer["id"], id);
        assert_eq!(dcm.only(&Kind::DEPLOYMENT, id).await["metadata"]["labels"], labels("container", id));
        assert_eq!(dcm.read(CONTAINERS, id).await["path"], format!("containers/{id}"));
    }
}

#[tokio::test]
async fn an_illegal_or_reserved_id_is_refused_and_nothing_is_made() {
    let dcm = Dcm::start("c04").await;
    let long = "a".repeat(64);
    for id in ["-a", "a-", "A", "a_b", long.as_str(), ""] {
        let answer = dcm.post(&format!("{CONTAINERS}?id={id}"), &json!({ "spec": web() })).await;
        let document = problem(&answer, 400, "invalid-argument");
        assert_eq!(document["instance"], format!("{CONTAINERS}?id={id}"));
    }
    let answer = dcm.post(&format!("{CONTAINERS}?id=health"), &json!({ "spec": web() })).await;
    let document = problem(&answer, 400, "invalid-argument");
    assert!(document["detail"].as_str().unwrap().contains("reserved"), "{document}");
    assert_eq!(dcm.objects.list(&Kind::DEPLOYMENT, "").await.unwrap(), Vec::<Value>::new());
}

#[tokio::test]
async fn an_id_that_is_taken_is_refused_and_its_owner_is_untouched() {
    let dcm = Dcm::start("c06").await;
    dcm.container("mine", web()).await;
    // The controllers write to it for a while.
    dcm.pod("mine").await;
    let before = dcm.only(&Kind::DEPLOYMENT, "mine").await;
    let again = with(web(), "/image/reference", json!("registry.example/other:1"));
    let answer = dcm.post(&format!("{CONTAINERS}?id=mine"), &json!({ "spec": again })).await;
    problem(&answer, 409, "already-exists");
    let after = dcm.only(&Kind::DEPLOYMENT, "mine").await;
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(after["metadata"]["generation"], before["metadata"]["generation"]);
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(dcm.read(CONTAINERS, "mine").await["spec"]["image"], web()["image"]);
}

#[tokio::test]
async fn a_body_that_is_no_spec_is_refused_whatever_it_is() {
    let dcm = Dcm::start("c09").await;
    let large = format!("{{\"spec\": \"{}\"}}", "x".repeat(2 << 20));
    let deep = format!("{{\"spec\": {}{}}}", "[".repeat(200), "]".repeat(200));
    let bodies: [(&[u8], u16, &str); 12] = [
        (b"{}", 400, "invalid-argument"),
        (b"{bad", 400, "invalid-argument"),
        (b"", 400, "invalid-argument"),
        (b"[]", 400, "invalid-argument"),
        (b"null", 400, "invalid-argument"),
        (b"{\"spec\": 1}", 400, "invalid-argument"),
        (b"{\"spec\": {}, \"spec\": {}}", 400, "invalid-argument"),
        (b"{} {}", 400, "invalid-argument"),
        (b"{\"spec\": \"\xff\"}", 400, "invalid-argument"),
        (b"\xef\xbb\xbf{}", 400, "invalid-argument"),
        (deep.as_bytes(), 400, "invalid-argument"),
        (large.as_bytes(), 413, "payload-too-large"),
    ];
    let json = [("content-type", "application/json")];
    for (body, status, code) in bodies {
        let answer = dcm.http.request("POST", CONTAINERS, &json, body.to_vec()).await.unwrap();
        problem(&answer, status, code);
    }
    let answer = dcm.http.request("POST", CONTAINERS, &[("content-type", "text/plain")], "{}").await.unwrap();
    problem(&answer, 415, "unsupported-media-type");
    assert_eq!(dcm.objects.list(&Kind::DEPLOYMENT, "").await.unwrap(), Vec::<Value>::new());
}

#[tokio::test]
async fn a_missing_member_is_named_at_its_parent() {
    let dcm = Dcm::start("c11").await;
    let members = [
        "/image",
        "/metadata",
        "/resources",
        "/service_type",
        "/image/reference",
        "/metadata/name",
        "/resources/cpu",
        "/resources/memory",
        "/resources/cpu/min",
        "/resources/cpu/max",
        "/resources/memory/min",
        "/resources/memory/max",
    ];
    for member in members {
        let (parent, name) = member.rsplit_once('/').unwrap();
        let answer = dcm.post(CONTAINERS, &json!({ "spec": without(web(), member) })).await;
        assert_eq!(faults(&answer), [format!("#/spec{parent}")], "{member}");
        let detail = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(name), "{member}: {detail}");
    }
}

#[tokio::test]
async fn a_wrong_value_is_refused_with_its_pointer() {
    let dcm = Dcm::start("c12").await;
    // The member, its wrong value, and where below it the fault is.
    let cases = [
        ("/service_type", json!("vm"), ""),
        ("/process/command", json!("sh"), ""),
        ("/resources/cpu/min", json!(4), ""),
        ("/resources/cpu/min", json!(0), ""),
        ("/resources/cpu/min", json!("0"), ""),
        ("/resources/cpu/min", json!(0.5), ""),
        ("/resources/memory/min", json!("2GB"), ""),
        ("/resources/memory/max", json!("10KB"), ""),
        ("/resources/memory/max", json!("1024"), ""),
        ("/resources/memory/max", json!("1Gi"), ""),
        ("/image/reference", json!(" "), ""),
        ("/image/reference", json!(""), ""),
        ("/metadata/name", json!("Web"), ""),
        ("/metadata/name", json!("a".repeat(64)), ""),
        ("/metadata/labels", json!({ "dcm.project/managed-by": "me" }), "/dcm.project~1managed-by"),
        ("/metadata/labels", json!({ "a": "not a value" }), "/a"),
        ("/metadata/labels", json!({ "a": 1 }), "/a"),
        ("/metadata/labels", json!({ "-a": "1" }), "/-a"),
        ("/metadata/namespace", json!("kube-system"), ""),
        ("/network/ip", json!("10.0.0.1"), ""),
    ];
    for (member, value, below) in cases {
        is_refused(&dcm, member, value, below).await;
    }
    assert_eq!(dcm.objects.list(&Kind::DEPLOYMENT, "").await.unwrap(), Vec::<Value>::new());
}

#[tokio::test]
async fn a_wrong_port_or_variable_is_named_by_its_position() {
    let dcm = Dcm::start("c12-lists").await;
    let good = json!({ "container_port": 80, "visibility": "internal" });
    let ports = [
        (json!([with(good.clone(), "/container_port", json!(0))]), "/0/container_port"),
        (json!([good, with(good.clone(), "/container_port", json!(70000))]), "/1/container_port"),
        (json!([without(good.clone(), "/visibility")]), "/0"),
        (json!([with(good.clone(), "/visibility", json!("public"))]), "/0/visibility"),
        (json!([good, good]), "/1/container_port"),
    ];
    for (value, below) in ports {
        is_refused(&dcm, "/network/ports", value, below).await;
    }
    let variables = [
        (json!([{ "name": "A", "value": "1" }, { "name": "A", "value": "2" }]), "/1/name"),
        (json!([{ "name": "A=B", "value": "1" }]), "/0/name"),
        (json!([{ "name": "A", "value": 1 }]), "/0/value"),
        (json!([{ "name": "A" }]), "/0"),
    ];
    for (value, below) in variables {
        is_refused(&dcm, "/process/env", value, below).await;
    }
}

/// A body with one wrong member is refused at its place, wrapped or bare.
async fn is_refused(dcm: &Dcm, member: &str, value: Value, below: &str) {
    let spec = with(web(), member, value.clone());
    let wrapped = dcm.post(CONTAINERS, &json!({ "spec": spec })).await;
    assert_eq!(faults(&wrapped), [format!("#/spec{member}{below}")], "{value}: {}", wrapped.text());
    let bare = dcm.post(CONTAINERS, &spec).await;
    assert_eq!(faults(&bare), [format!("#{member}{below}")], "{value}: {}", bare.text());
}

#[tokio::test]
async fn a_read_only_member_is_refused_wherever_it_stands() {
    let dcm = Dcm::start("ro").await;
    for name in ["id", "path", "status", "service", "create_time", "update_time"] {
        let answer = dcm.post(CONTAINERS, &json!({ name: "x", "spec": web() })).await;
        assert_eq!(faults(&answer), [format!("#/{name}")], "{}", answer.text());
    }
    let answer = dcm.post(CONTAINERS, &json!({ "spec": web(), "sepc": {} })).await;
    assert_eq!(faults(&answer), ["#/sepc"]);
}

#[tokio::test]
async fn without_an_exposed_port_there_is_no_service() {
    let dcm = Dcm::start("c13").await;
    let networks = [None, Some(json!({})), Some(json!({ "ports": [] }))];
    for (number, network) in networks.into_iter().enumerate() {
        let spec = network.map_or_else(web, |network| with(web(), "/network", network));
        let id = format!("none-{number}");
        assert_eq!(dcm.container(&id, spec).await.get("service"), None);
        assert_eq!(dcm.read(CONTAINERS, &id).await.get("service"), None);
    }
    let closed = dcm.container("closed", web_with_ports(&[(80, "none"), (81, "none")])).await;
    assert_eq!(closed.get("service"), None);
    assert_eq!(dcm.objects.list(&Kind::SERVICE, "").await.unwrap(), Vec::<Value>::new());
}

#[tokio::test]
async fn what_nobody_knows_is_echoed_and_not_acted_on() {
    let dcm = Dcm::start("c19").await;
    let mut spec =
        with(web(), "/colour", json!({ "of": ["the", 1, true, null], "big": 9007199254740993_i64 }));
    spec = with(spec, "/provider_hints", json!({ "other": { "x": 1 } }));
    let answer = dcm.container("odd", spec.clone()).await;
    let expected = with(spec, "/metadata/namespace", json!(dcm.objects.namespace()));
    assert_eq!(answer["spec"], expected);
    assert_eq!(dcm.read(CONTAINERS, "odd").await["spec"], expected);
}

#[tokio::test]
async fn resources_are_whole_cores_and_binary_units() {
    let dcm = Dcm::start("c20").await;
    let resources = json!({ "cpu": { "min": 1, "max": 2 }, "memory": { "min": "1GB", "max": "2GB" } });
    let small =
        json!({ "cpu": { "min": "250m", "max": "1500m" }, "memory": { "min": "512MB", "max": "1TB" } });
    let answer = dcm.container("one", with(web(), "/resources", resources.clone())).await;
    assert_eq!(answer["spec"]["resources"], resources);
    dcm.container("two", with(web(), "/resources", small)).await;
    let resources = async |id: &str| {
        dcm.only(&Kind::DEPLOYMENT, id).await["spec"]["template"]["spec"]["containers"][0]["resources"]
            .clone()
    };
    let expected = json!({
        "requests": { "cpu": "1", "memory": "1Gi" }, "limits": { "cpu": "2", "memory": "2Gi" },
    });
    assert_eq!(resources("one").await, expected);
    let expected = json!({
        "requests": { "cpu": "250m", "memory": "512Mi" }, "limits": { "cpu": "1500m", "memory": "1Ti" },
    });
    assert_eq!(resources("two").await, expected);
}

#[tokio::test]
async fn a_process_is_passed_on_verbatim_and_in_order() {
    let dcm = Dcm::start("c22").await;
    let variable = |name: &str, value: &str| json!({ "name": name, "value": value });
    let process = json!({
        "command": ["sh", "-c", "exec \"$0\" $@"],
        "args": ["--z", "--a", "", "b b"],
        "env": [
            variable("Z", "1"), variable("A", "$(Z)"), variable("M", ""), variable("B_2", "x=y"),
            variable("a.b-c", "5"),
        ],
    });
    dcm.container("proc", with(web(), "/process", process.clone())).await;
    let deployment = dcm.only(&Kind::DEPLOYMENT, "proc").await;
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!((&container["command"], &container["args"]), (&process["command"], &process["args"]));
    let sent = process["env"].as_array().unwrap();
    let stored = container["env"].as_array().unwrap();
    assert_eq!(stored.len(), sent.len());
    for (stored, sent) in stored.iter().zip(sent) {
        assert_eq!(stored["name"], sent["name"]);
        // The API server drops an empty value.
        assert_eq!(stored["value"].as_str().unwrap_or_default(), sent["value"].as_str().unwrap());
    }
}

#[tokio::test]
async fn internal_ports_get_a_cluster_ip_and_closed_ones_stay_on_the_container() {
    let dcm = Dcm::start("c23").await;
    let answer = dcm.container("inner", web_with_ports(&[(80, "internal"), (81, "none")])).await;
    let service = dcm.only(&Kind::SERVICE, "inner").await;
    let spec = &service["spec"];
    assert_eq!(spec["type"], "ClusterIP");
    assert_eq!(spec["selector"], labels("container", "inner"));
    assert_eq!(service["metadata"]["labels"], labels("container", "inner"));
    assert_eq!(
        spec["ports"],
        json!([{ "name": "port-80", "port": 80, "targetPort": 80, "protocol": "TCP" }])
    );
    let shown = json!({
        "name": name_of(&service), "cluster_ip": spec["clusterIP"], "type": "ClusterIP",
        "ports": [{ "port": 80, "target_port": 80, "protocol": "TCP" }],
    });
    assert_eq!(answer["service"], shown);
    let deployment = dcm.only(&Kind::DEPLOYMENT, "inner").await;
    let ports = &deployment["spec"]["template"]["spec"]["containers"][0]["ports"];
    let expected =
        json!([{ "containerPort": 80, "protocol": "TCP" }, { "containerPort": 81, "protocol": "TCP" }]);
    assert_eq!(*ports, expected);
}

#[tokio::test]
async fn an_external_port_gets_the_type_that_the_platform_chose() {
    let dcm = Dcm::start_with("c24", |launch| launch.env("SP_K8S_EXTERNAL_SVC_TYPE", "NodePort")).await;
    let answer = dcm.container("outer", web_with_ports(&[(80, "external")])).await;
    assert_eq!(answer["service"]["type"], "NodePort");
    let shown = dcm.read(CONTAINERS, "outer").await;
    assert_eq!(shown["spec"]["network"]["ports"][0]["visibility"], "external");
    assert_eq!(shown["service"], answer["service"]);
    assert_eq!(dcm.only(&Kind::SERVICE, "outer").await["spec"]["type"], "NodePort");
}

#[tokio::test]
async fn an_unknown_id_or_route_is_a_problem() {
    let dcm = Dcm::start("c31").await;
    for method in ["GET", "DELETE"] {
        let answer = dcm.http.request(method, &format!("{CONTAINERS}/nobody"), &[], "").await.unwrap();
        let document = problem(&answer, 404, "not-found");
        assert_eq!(document["instance"], format!("{CONTAINERS}/nobody"));
    }
    for path in ["/api/v1alpha1/boats", "/api/v2/containers", "/", "/api/v1alpha1/containers/a/b"] {
        problem(&dcm.get(path).await, 404, "not-found");
    }
    let answer = dcm.http.request("PUT", CONTAINERS, &[], "").await.unwrap();
    problem(&answer, 405, "method-not-allowed");
    assert_eq!(answer.header("allow"), "GET, HEAD, OPTIONS, POST");
    let patch =
        dcm.http.request(Method::PATCH.as_str(), &format!("{CONTAINERS}/a"), &[], "{}").await.unwrap();
    problem(&patch, 405, "method-not-allowed");
    assert_eq!(patch.header("allow"), "DELETE, GET, HEAD, OPTIONS");
}

#[tokio::test]
async fn a_read_after_a_create_tells_the_same() {
    let dcm = Dcm::start("c40").await;
    let made = dcm.container("echo", example()["spec"].clone()).await;
    let shown = dcm.read(CONTAINERS, "echo").await;
    assert_eq!(shown["spec"], made["spec"]);
    assert_eq!(shown["service"], made["service"]);
    assert_eq!(shown["spec"]["metadata"]["name"], "web-app");
    let sent = without(shown["spec"].clone(), "/metadata/namespace");
    assert_eq!(sent, example()["spec"]);
}

#[tokio::test]
async fn pages_hold_what_was_asked_for_without_overlap() {
    let dcm = Dcm::start("c33").await;
    assert_eq!(dcm.get(CONTAINERS).await.json(), json!({ "containers": [] }));
    for id in ["e", "b", "d", "a", "c"] {
        dcm.container(id, web()).await;
    }
    let mut pages = Vec::new();
    let mut token = String::new();
    loop {
        let page = dcm.get(&format!("{CONTAINERS}?max_page_size=2&page_token={token}")).await;
        assert_eq!(page.status, 200, "{}", page.text());
        let page = page.json();
        let ids = page["containers"].as_array().unwrap().iter();
        pages.push(ids.map(|item| item["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>());
        match page.get("next_page_token").and_then(Value::as_str) {
            Some(next) if !next.is_empty() => token = next.to_owned(),
            _ => break,
        }
    }
    assert_eq!(pages, [vec!["a", "b"], vec!["c", "d"], vec!["e"]]);
    for size in ["0", "-1", "1001", "abc", "1.5", ""] {
        let answer = dcm.get(&format!("{CONTAINERS}?max_page_size={size}")).await;
        problem(&answer, 400, "invalid-argument");
    }
    let first = dcm.get(&format!("{CONTAINERS}?max_page_size=2")).await.json();
    let token = first["next_page_token"].as_str().unwrap();
    for wrong in ["x", &token[1..], &format!("{token}61")] {
        let answer = dcm.get(&format!("{CONTAINERS}?page_token={wrong}")).await;
        problem(&answer, 400, "invalid-argument");
    }
    // A page goes on behind an item that is gone, and shows one that came.
    dcm.delete(CONTAINERS, "b").await;
    dcm.container("ca", web()).await;
    let second = dcm.get(&format!("{CONTAINERS}?max_page_size=2&page_token={token}")).await.json();
    assert_eq!((&second["containers"][0]["id"], &second["containers"][1]["id"]), (&json!("c"), &json!("ca")));
}

#[tokio::test]
async fn a_list_shows_fifty_and_every_item_as_get_does() {
    let dcm = Dcm::start("c36").await;
    let stranger = json!({ "metadata": { "name": "stranger", "labels": { "app": "x" } }, "spec": {
        "selector": { "matchLabels": { "app": "x" } },
        "template": { "metadata": { "labels": { "app": "x" } }, "spec": { "containers": [{ "name": "x", "image": "x" }] } },
    } });
    dcm.objects.create(&Kind::DEPLOYMENT, stranger).await.unwrap();
    let ids: Vec<String> = (0..60).map(|number| format!("item-{number:02}")).collect();
    for chunk in ids.chunks(6) {
        let made = chunk.iter().map(|id| dcm.container(id, web_with_ports(&[])));
        futures::future::join_all(made).await;
    }
    let page = dcm.get(CONTAINERS).await.json();
    let items = page["containers"].as_array().unwrap();
    assert_eq!(items.len(), 50);
    let token = page["next_page_token"].as_str().unwrap();
    let rest = dcm.get(&format!("{CONTAINERS}?page_token={token}")).await.json();
    let seen: Vec<&Value> =
        items.iter().chain(rest["containers"].as_array().unwrap()).map(|item| &item["id"]).collect();
    assert_eq!(seen, ids.iter().collect::<Vec<_>>());
    assert_eq!(rest.get("next_page_token"), None);

    // Once the controllers rest, an item equals what GET answers, time and all.
    let same = async || {
        let page = dcm.get(&format!("{CONTAINERS}?max_page_size=8")).await.json();
        for item in page["containers"].as_array().unwrap() {
            if dcm.read(CONTAINERS, item["id"].as_str().unwrap()).await != *item {
                return None;
            }
        }
        Some(())
    };
    mapwright_testbed::eventually("every item equals its GET", crate::dcm::SOON, same).await.unwrap();
}
