//! The addresses and ports that Services get.

use std::collections::HashSet;
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::object::{list, text};
use super::refusal::Cause;

/// What is given away.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    services: HashSet<Ipv4Addr>,
    node_ports: HashSet<i64>,
    last: u32,
}

/// The first address of the range of Services, and how many there are.
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 0);
const COUNT: u32 = 1 << 16;

const FIRST_PORT: i64 = 30_000;
const PORTS: i64 = 2768;

impl Addresses {
    /// Gives a Service what it needs and does not have yet. What it gives is taken once the Service is kept.
    pub(super) fn assign(&mut self, service: &mut Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
        let kind = text(service, "/spec/type").to_owned();
        let outside = ["NodePort", "LoadBalancer"].contains(&kind.as_str());
        if kind != "ExternalName" {
            self.assign_address(service, old, causes);
        }
        let spec = &mut service["spec"];
        if outside {
            fill(spec, "externalTrafficPolicy", "Cluster".into());
        }
        if kind == "LoadBalancer" {
            fill(spec, "allocateLoadBalancerNodePorts", true.into());
        }
        let wants = outside && spec["allocateLoadBalancerNodePorts"] != false;
        self.assign_ports(service, old, wants, causes);
    }

    /// The ports by which a Service is reached: where they lead, and which of the nodes' they are.
    fn assign_ports(&self, service: &mut Value, old: Option<&Value>, wants: bool, causes: &mut Vec<Cause>) {
        let former: HashSet<i64> = old.map(ports_of).unwrap_or_default();
        let mut taken = HashSet::new();
        let Some(Value::Array(ports)) = service.pointer_mut("/spec/ports") else { return };
        for (index, port) in ports.iter_mut().enumerate() {
            let field = format!("spec.ports[{index}].nodePort");
            if port["targetPort"].is_null() || port["targetPort"] == 0 {
                port["targetPort"] = port["port"].clone();
            }
            let asked = port["nodePort"].as_i64().filter(|asked| *asked != 0);
            match asked {
                Some(asked) if former.contains(&asked) => {}
                Some(asked) if self.node_ports.contains(&asked) => {
                    causes.push(Cause::invalid(field, &asked.into(), "provided port is already allocated"));
                }
                Some(asked) if !(FIRST_PORT..FIRST_PORT + PORTS).contains(&asked) => {
                    let detail =
                        "provided port is not in the valid range. The range of valid ports is 30000-32767";
                    causes.push(Cause::invalid(field, &asked.into(), detail));
                }
                Some(_) => {}
                None if wants => {
                    let kept = old.and_then(|old| same_port(old, port));
                    let free = |port: &i64| !self.node_ports.contains(port) && taken.insert(*port);
                    match kept.or_else(|| (FIRST_PORT..FIRST_PORT + PORTS).find(free)) {
                        Some(given) => port["nodePort"] = given.into(),
                        None => {
                            let detail = "failed to allocate a nodePort: range is full";
                            causes.push(Cause::invalid(field, &0.into(), detail));
                        }
                    }
                }
                None => {}
            }
        }
    }

    fn assign_address(&mut self, service: &mut Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
        let former = old.map(|old| text(old, "/spec/clusterIP").to_owned()).unwrap_or_default();
        let asked = text(service, "/spec/clusterIP").to_owned();
        let given = match asked.as_str() {
            "" if !former.is_empty() => former,
            "" => match self.next() {
                Some(address) => address.to_string(),
                None => {
                    let detail = "failed to allocate IP: range is full";
                    return causes.push(Cause::invalid("spec.clusterIPs[0]", &json!(asked), detail));
                }
            },
            "None" => asked,
            _ if asked == former => asked,
            _ => match asked.parse::<Ipv4Addr>() {
                Ok(address) if self.services.contains(&address) => {
                    let detail = "failed to allocate IP: provided IP is already allocated";
                    return causes.push(Cause::invalid("spec.clusterIPs", &json!([asked]), detail));
                }
                Ok(_) => asked,
                Err(_) => {
                    let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
                    return causes.push(Cause::invalid("spec.clusterIPs[0]", &json!(asked), detail));
                }
            },
        };
        let spec = &mut service["spec"];
        spec["clusterIP"] = given.clone().into();
        spec["clusterIPs"] = json!([given]);
        fill(spec, "ipFamilies", json!(["IPv4"]));
        fill(spec, "ipFamilyPolicy", "SingleStack".into());
    }

    /// What a stored Service holds is nobody else's.
    pub(super) fn keep(&mut self, service: &Value) {
        self.services.extend(text(service, "/spec/clusterIP").parse::<Ipv4Addr>().ok());
        self.node_ports.extend(ports_of(service));
    }

    pub(super) fn release(&mut self, service: &Value) {
        if let Ok(address) = text(service, "/spec/clusterIP").parse() {
            self.services.remove(&address);
        }
        for port in ports_of(service) {
            self.node_ports.remove(&port);
        }
    }

    fn next(&mut self) -> Option<Ipv4Addr> {
        for _ in 0..COUNT {
            self.last = (self.last + 1) % COUNT;
            let address = Ipv4Addr::from(u32::from(FIRST) + self.last);
            // The first and the last are the range's own; the tenth is the name server's by custom.
            if ![0, 1, 10, COUNT - 1].contains(&self.last) && !self.services.contains(&address) {
                return Some(address);
            }
        }
        None
    }
}

fn ports_of(service: &Value) -> HashSet<i64> {
    let ports = list(service, "/spec/ports").iter();
    ports.filter_map(|port| port["nodePort"].as_i64()).filter(|port| *port != 0).collect()
}

fn same_port(old: &Value, port: &Value) -> Option<i64> {
    let same = |other: &&Value| other["port"] == port["port"] && other["protocol"] == port["protocol"];
    list(old, "/spec/ports").iter().find(same)?["nodePort"].as_i64()
}

fn fill(spec: &mut Value, member: &str, value: Value) {
    if spec[member].is_null() {
        spec[member] = value;
    }
}
