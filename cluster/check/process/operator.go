package process

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"engine_race/cluster/secret"
	"engine_race/cluster/service"
)

// pageTime bounds one request of an admin page.
const pageTime = 2 * time.Second

// pollEvery is the time between two looks at a node that is waited for.
const pollEvery = 20 * time.Millisecond

// get asks the node's admin address for a page.
func (c *Cluster) get(ctx context.Context, id int, page string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTime)
	defer cancel()
	scheme := "http://"
	if c.options.TLS {
		scheme = "https://"
	}
	url := scheme + c.Info(id).AdminAddress + page
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	secret.Show(request.Header, clusterSecret)
	request.Close = true // a kept connection would hide a partition that has ended
	response, err := c.pages.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %.200s", url, response.Status, body)
	}
	return body, nil
}

// Ready asks the node whether it should get requests.
func (c *Cluster) Ready(ctx context.Context, id int) error {
	_, err := c.get(ctx, id, "/readyz")
	return err
}

// Status gives what the node knows of the cluster.
func (c *Cluster) Status(ctx context.Context, id int) (service.Status, error) {
	var status service.Status
	body, err := c.get(ctx, id, "/status")
	if err != nil {
		return status, err
	}
	if err := json.Unmarshal(body, &status); err != nil {
		return status, fmt.Errorf("node %d: /status: %w", id, err)
	}
	return status, nil
}

// WaitReady waits until the node is ready, ReadyIn at most. It fails at once if its process ends.
func (c *Cluster) WaitReady(ctx context.Context, id int) error {
	ctx, cancel := context.WithTimeout(ctx, c.options.ReadyIn)
	defer cancel()
	for {
		err := c.Ready(ctx, id)
		if err == nil {
			return nil
		}
		if !c.Running(id) {
			return fmt.Errorf("node %d does not run: %s", id, c.nodes[id-1].logEnd())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("node %d does not become ready in %v: %w", id, c.options.ReadyIn, err)
		case <-time.After(pollEvery):
		}
	}
}

// StartAll starts the nodes that do not run, and waits until all nodes are ready.
func (c *Cluster) StartAll(ctx context.Context) error {
	for id := 1; id <= c.Nodes(); id++ {
		if c.Running(id) {
			continue
		}
		if err := c.Start(id); err != nil {
			return err
		}
	}
	for id := 1; id <= c.Nodes(); id++ {
		if err := c.WaitReady(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// Leader gives the node that leads the shard. It asks all nodes until one knows, while ctx lasts.
func (c *Cluster) Leader(ctx context.Context, shard uint64) (int, error) {
	for {
		for id := 1; id <= c.Nodes(); id++ {
			status, err := c.Status(ctx, id)
			if err != nil {
				continue
			}
			for _, known := range status.Shards {
				leader := int(known.LeaderID)
				if known.ShardID == shard && leader > 0 && leader <= c.Nodes() {
					return leader, nil
				}
			}
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("no node knows the leader of shard %d: %w", shard, ctx.Err())
		case <-time.After(pollEvery):
		}
	}
}

// ShardIDs gives the ids of all shards, as a node knows them.
func (c *Cluster) ShardIDs(ctx context.Context, via int) ([]uint64, error) {
	status, err := c.Status(ctx, via)
	if err != nil {
		return nil, err
	}
	var ids []uint64
	for _, shard := range status.Shards {
		ids = append(ids, shard.ShardID)
	}
	return ids, nil
}

// AddReplica gives the node a replica of the shard. The node `via` carries the change out.
func (c *Cluster) AddReplica(ctx context.Context, via int, shard uint64, id int) error {
	return c.operate(ctx, "add-replica", via, shard, id)
}

// RemoveReplica takes the node's replica of the shard away.
func (c *Cluster) RemoveReplica(ctx context.Context, via int, shard uint64, id int) error {
	return c.operate(ctx, "remove-replica", via, shard, id)
}

// MoveLeader lets the node lead the shard.
func (c *Cluster) MoveLeader(ctx context.Context, via int, shard uint64, id int) error {
	return c.operate(ctx, "move-leader", via, shard, id)
}

// MoveReplica moves a replica of the shard from one node to another.
func (c *Cluster) MoveReplica(ctx context.Context, via int, shard uint64, from, to int) error {
	return c.command(ctx, via, "move-replica", "--config", c.nodes[via-1].config,
		"--admin", c.Info(via).AdminAddress, "--shard", strconv.FormatUint(shard, 10),
		"--from", strconv.Itoa(from), "--to", strconv.Itoa(to))
}

// Split gives the keys of the shard from `key` on to a new shard.
func (c *Cluster) Split(ctx context.Context, via int, shard, key uint64) error {
	return c.command(ctx, via, "split", "--config", c.nodes[via-1].config,
		"--admin", c.Info(via).AdminAddress, "--shard", strconv.FormatUint(shard, 10),
		"--key", fmt.Sprintf("0x%016x", key))
}

func (c *Cluster) operate(ctx context.Context, name string, via int, shard uint64, id int) error {
	return c.command(ctx, via, name, "--config", c.nodes[via-1].config,
		"--admin", c.Info(via).AdminAddress,
		"--shard", strconv.FormatUint(shard, 10), "--node", strconv.Itoa(id))
}
