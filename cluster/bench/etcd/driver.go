package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"engine_race/cluster/bench/etcd/load"
)

const (
	callTimeout = 5 * time.Second
	// connectionCount is how many connections the clients share. Etcd batches the frames of one
	// connection, so fewer connections than clients are to its advantage.
	connectionCount = 8
)

// driver has the clients. One goroutine at a time calls it. It owns its connections.
type driver struct {
	addresses   []string
	connections []*clientv3.Client
	leader      string // the address that they lead to
}

func (d *driver) close() {
	for _, connection := range d.connections {
		_ = connection.Close()
	}
	d.connections = nil
}

func connectWith(address string) (*clientv3.Client, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{address},
		DialTimeout: callTimeout})
	if err != nil {
		return nil, fmt.Errorf("connecting with %s: %w", address, err)
	}
	return client, nil
}

// findLeader gives the address of the server that leads.
func (d *driver) findLeader(ctx context.Context) (string, error) {
	failure := errors.New("no server leads")
	for _, address := range d.addresses {
		client, err := connectWith(address)
		if err != nil {
			return "", err
		}
		status, err := client.Status(ctx, address)
		_ = client.Close()
		if err != nil {
			failure = err
		} else if status.Leader != 0 && status.Leader == status.Header.MemberId {
			return address, nil
		}
	}
	return "", failure
}

// connect leads all connections to the present leader.
func (d *driver) connect() error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	leader, err := d.findLeader(ctx)
	if err != nil {
		return err
	}
	if leader == d.leader && len(d.connections) == connectionCount {
		return nil
	}
	d.close()
	for range connectionCount {
		connection, err := connectWith(leader)
		if err != nil {
			return err
		}
		d.connections = append(d.connections, connection)
	}
	d.leader = leader
	return nil
}

// of is the connection of a client.
func (d *driver) of(client int) *clientv3.Client { return d.connections[client%connectionCount] }

func (d *driver) do(work load.Work) (load.Figures, error) {
	if err := d.connect(); err != nil {
		return load.Figures{}, err
	}
	if work.Kind == load.State {
		return load.Figures{Leads: true}, nil
	}
	if work.Depth > 1 {
		return load.Figures{}, errors.New("a call takes one key")
	}
	switch work.Kind {
	case load.Fill, load.Write:
		return load.Run(work, func(client int, keys []uint64, value []byte) (int, error) {
			ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
			defer cancel()
			_, err := d.of(client).Put(ctx, string(load.KeyText(keys[0])), string(value))
			return 0, err
		})
	case load.Read:
		return load.Run(work, func(client int, keys []uint64, _ []byte) (int, error) {
			ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
			defer cancel()
			answer, err := d.of(client).Get(ctx, string(load.KeyText(keys[0])))
			if err != nil {
				return 0, err
			}
			if len(answer.Kvs) == 0 || len(answer.Kvs[0].Value) != work.Size() {
				return 1, nil
			}
			return 0, nil
		})
	}
	return load.Figures{}, fmt.Errorf("etcd's clients cannot do %q", work.Kind)
}
