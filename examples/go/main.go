// Write an invoice for each order, exactly once, with franz-go.
//
//	go run . [localhost:9092]
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
)

const orders = 6

type order struct {
	Number int `json:"number"`
	Apples int `json:"apples"`
}

type invoice struct {
	Order int `json:"order"`
	Cents int `json:"cents"`
}

func main() {
	bootstrap := "localhost:9092"
	if fromEnvironment := os.Getenv("BOOTSTRAP_SERVERS"); fromEnvironment != "" {
		bootstrap = fromEnvironment
	}
	if len(os.Args) > 1 {
		bootstrap = os.Args[1]
	}
	ctx := context.Background()
	if err := sendOrders(ctx, bootstrap); err != nil {
		log.Fatal(err)
	}
	if err := writeInvoices(ctx, bootstrap); err != nil {
		log.Fatal(err)
	}
}

// sendOrders writes some orders and waits for their acknowledgements.
func sendOrders(ctx context.Context, bootstrap string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.AllowAutoTopicCreation())
	if err != nil {
		return err
	}
	defer client.Close()
	for number := 1; number <= orders; number++ {
		value, err := json.Marshal(order{Number: number, Apples: 2 * number})
		if err != nil {
			return err
		}
		record := &kgo.Record{Topic: "orders", Key: fmt.Appendf(nil, "customer-%d", number%3), Value: value}
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

// writeInvoices reads orders as a member of a group. A transaction makes an invoice and the commit of its order
// visible together or not at all.
func writeInvoices(ctx context.Context, bootstrap string) error {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(bootstrap),
		kgo.AllowAutoTopicCreation(),
		kgo.TransactionalID("billing-1"),
		kgo.ConsumerGroup("billing"),
		kgo.ConsumeTopics("orders"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
	)
	if err != nil {
		return err
	}
	defer session.Close()
	for done := 0; done < orders; {
		fetches := session.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		if err := session.Begin(); err != nil {
			return err
		}
		sent := kgo.AbortingFirstErrPromise(session.Client())
		var failed error
		fetches.EachRecord(func(record *kgo.Record) {
			var wanted order
			if err := json.Unmarshal(record.Value, &wanted); err != nil {
				failed = err
				return
			}
			bill := invoice{Order: wanted.Number, Cents: 50 * wanted.Apples}
			value, err := json.Marshal(bill)
			if err != nil {
				failed = err
				return
			}
			session.Produce(ctx, &kgo.Record{Topic: "invoices", Key: record.Key, Value: value}, sent.Promise())
			fmt.Printf("%s owes %d cents for order %d\n", record.Key, bill.Cents, bill.Order)
		})
		isSent := sent.Err() == nil && failed == nil
		committed, err := session.End(ctx, kgo.TransactionEndTry(isSent))
		if err != nil || failed != nil {
			return fmt.Errorf("the transaction has failed: %w", firstOf(err, failed))
		}
		if committed { // otherwise the group was rebalanced, and the orders are delivered again
			done += fetches.NumRecords()
		}
	}
	return nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
