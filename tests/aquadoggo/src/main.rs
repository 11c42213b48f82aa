// SPDX-License-Identifier: AGPL-3.0-or-later

//! One aquadoggo node, told by arguments what to be; it ends when its standard input does.
//!
//! `culm-test-node PRIVATE_KEY_HEX DATABASE_FILE HTTP_PORT QUIC_PORT [DIRECT_NODE_ADDRESS...]`
//!
//! It prints `ready HTTP_PORT QUIC_PORT` once its services run.

use std::env;
use std::process::exit;

use aquadoggo::{AllowList, Configuration, NetworkConfiguration, Node};
use p2panda_rs::identity::KeyPair;
use tokio::io::{copy, sink, stdin};

const USAGE: &str = "usage: culm-test-node PRIVATE_KEY_HEX DATABASE_FILE HTTP_PORT QUIC_PORT [HOST:PORT...]";

struct Arguments {
    key_pair: KeyPair,
    database: String,
    http_port: u16,
    quic_port: u16,
    direct_node_addresses: Vec<String>,
}

fn arguments() -> Option<Arguments> {
    let mut words = env::args().skip(1);
    Some(Arguments {
        key_pair: KeyPair::from_private_key_str(&words.next()?).ok()?,
        database: words.next()?,
        http_port: words.next()?.parse().ok()?,
        quic_port: words.next()?.parse().ok()?,
        direct_node_addresses: words.collect(),
    })
}

#[tokio::main]
async fn main() {
    env_logger::init();
    let Some(given) = arguments() else {
        eprintln!("{USAGE}");
        exit(2);
    };
    let blobs = format!("{}.blobs", given.database);
    std::fs::create_dir_all(&blobs).expect("the folder of the database must be writable");
    let configuration = Configuration {
        allow_schema_ids: AllowList::Wildcard,
        database_url: format!("sqlite://{}", given.database),
        database_max_connections: 8,
        http_port: given.http_port,
        blobs_base_path: blobs.into(),
        worker_pool_size: 2,
        network: NetworkConfiguration {
            port: given.quic_port,
            mdns: false,
            // Without it this version closes every connection before the first p2panda stream is open.
            relay_mode: true,
            direct_node_addresses: given.direct_node_addresses.into_iter().map(Into::into).collect(),
            ..NetworkConfiguration::default()
        },
    };
    let node = Node::start(given.key_pair, configuration).await;
    println!("ready {} {}", given.http_port, given.quic_port);
    tokio::select! {
        _ = node.on_exit() => {
            eprintln!("a service of the node has stopped");
            exit(1);
        }
        _ = async { copy(&mut stdin(), &mut sink()).await } => node.shutdown().await,
    }
}
