//! Schema and checks, with the look-ups that they read fetched in between.

use serde_json::Value;

use super::Provisioner;
use super::answer::{broken_rule, problem_of};
use crate::cluster::ListOptions;
use crate::engine::format::Moment;
use crate::engine::inputs::{Identity, Inputs};
use crate::engine::problem::Problem;
use crate::engine::request::{Judged, Request};

impl Provisioner {
    /// Judges a request; whatever its checks read from the cluster is fetched once and stays in `inputs`.
    pub(super) async fn judge(
        &self,
        moment: Moment,
        request: &Request,
        identity: &Identity,
        inputs: &mut Inputs,
    ) -> Result<(), Problem> {
        let service = &self.provider.service;
        inputs.lookups.resize(service.lookups.len(), None);
        loop {
            match service.judge(moment, request, identity, inputs).map_err(|error| broken_rule(&error))? {
                Judged::Passed => return Ok(()),
                Judged::Refused(problem) => return Err(problem),
                Judged::Needs(positions) => {
                    for position in positions {
                        let found = self.look_up(position, identity, inputs).await?;
                        inputs.lookups[position] = Some(found);
                    }
                }
            }
        }
    }

    async fn look_up(&self, position: usize, identity: &Identity, inputs: &Inputs) -> Result<Value, Problem> {
        let provider = &self.provider;
        let rule = &provider.service.lookups[position];
        let refused = |refusal| problem_of(&refusal, "looking up an object");
        let resource = provider.resource(&rule.kind).await.map_err(refused)?;
        if rule.list {
            let options = ListOptions::default();
            let found = provider.cluster.list(&resource, &provider.namespace, &options).await;
            return found.map(Value::Array).map_err(refused);
        }
        let Some(get) = &rule.get else { return Ok(Value::Null) };
        let scope = provider.service.scope(identity, inputs).map_err(|error| broken_rule(&error))?;
        let name = provider.service.program.name(get, &scope).map_err(|error| broken_rule(&error))?;
        let Some(name) = name else { return Ok(Value::Null) };
        let found = provider.cluster.get(&resource, &provider.namespace, &name).await;
        Ok(found.map_err(refused)?.unwrap_or(Value::Null))
    }
}
