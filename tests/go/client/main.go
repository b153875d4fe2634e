// A client of the gRPC service of Ares, generated from its proto files. It submits a job, follows its output and its
// events, looks it up in pages of the list, cancels another one, and reads a refusal. What it saw is its last line.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"ares.test/client/aresv1"
)

type seen struct {
	Job      string   `json:"job"`
	Replayed bool     `json:"replayed"`
	Output   string   `json:"output"`
	Events   []string `json:"events"`
	Phase    string   `json:"phase"`
	Listed   int      `json:"listed"`
	Pages    int      `json:"pages"`
	Cancel   string   `json:"cancel"`
	Nodes    int      `json:"nodes"`
	Refusal  string   `json:"refusal"`
	Reason   string   `json:"reason"`
}

func main() {
	log.SetFlags(0)
	conn, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(transport()))
	must(err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+os.Getenv("ARES_TOKEN"))
	found, err := json.Marshal(use(ctx, conn))
	must(err)
	fmt.Println(string(found))
}

func transport() credentials.TransportCredentials {
	file := os.Getenv("ARES_CA")
	if file == "" {
		return insecure.NewCredentials()
	}
	pem, err := os.ReadFile(file)
	must(err)
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		log.Fatal("no certificate in " + file)
	}
	return credentials.NewTLS(&tls.Config{RootCAs: pool})
}

func use(ctx context.Context, conn *grpc.ClientConn) seen {
	jobs, logs := aresv1.NewJobServiceClient(conn), aresv1.NewLogServiceClient(conn)
	events, nodes := aresv1.NewEventServiceClient(conn), aresv1.NewNodeServiceClient(conn)
	saw := seen{}

	live, err := events.StreamEvents(ctx, &aresv1.StreamEventsRequest{})
	must(err)
	_, err = live.Header()
	must(err)

	asked := &aresv1.SubmitJobRequest{
		RequestId: proto.String("go-1"),
		Spec: &aresv1.JobSpec{
			Command:   []string{"sh", "-c", "echo from go; echo done"},
			Name:      proto.String("go"),
			Resources: &aresv1.Resources{CpuMilli: proto.Int64(100), MemoryMib: proto.Int64(64)},
		},
	}
	made, err := jobs.SubmitJob(ctx, asked)
	must(err)
	again, err := jobs.SubmitJob(ctx, asked)
	must(err)
	saw.Job, saw.Replayed = made.Id, again.Replayed && again.Id == made.Id

	output, err := logs.StreamJobLogs(ctx, &aresv1.StreamJobLogsRequest{Id: made.Id, Follow: proto.Bool(true)})
	must(err)
	for {
		piece, err := output.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		must(err)
		saw.Output += string(piece.Data)
	}
	cursor := ""
	for {
		event, err := live.Recv()
		must(err)
		if event.Event.Job != made.Id {
			continue
		}
		saw.Events = append(saw.Events, event.Event.Kind)
		saw.Phase, cursor = event.Event.Phase, event.Cursor
		if event.Event.Kind == "succeeded" || event.Event.Kind == "failed" {
			break
		}
	}

	other, err := jobs.SubmitJob(ctx, &aresv1.SubmitJobRequest{
		Spec: &aresv1.JobSpec{Command: []string{"true"}, Held: proto.Bool(true)},
	})
	must(err)
	state, err := jobs.CancelJob(ctx, &aresv1.CancelJobRequest{Id: other.Id, Reason: proto.String("no need")})
	must(err)
	saw.Cancel = state.Phase
	// Where the other stream ended.
	later, err := events.StreamEvents(ctx, &aresv1.StreamEventsRequest{Cursor: proto.String(cursor)})
	must(err)
	next, err := later.Recv()
	must(err)
	if next.Event.Job != other.Id {
		log.Fatalf("resumed at %s of %s", next.Event.Kind, next.Event.Job)
	}

	page := &aresv1.JobPage{}
	for first := true; first || page.Cursor != ""; first = false {
		page, err = jobs.ListJobs(ctx, &aresv1.ListJobsRequest{Limit: proto.Int64(1), Cursor: proto.String(page.Cursor)})
		must(err)
		saw.Listed += len(page.Jobs)
		saw.Pages++
	}
	list, err := nodes.ListNodes(ctx, &aresv1.ListNodesRequest{})
	must(err)
	saw.Nodes = len(list.Nodes)

	_, err = jobs.GetJob(ctx, &aresv1.GetJobRequest{Id: "0000000000000000"})
	refusal := status.Convert(err)
	saw.Refusal = refusal.Code().String()
	for _, detail := range refusal.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			saw.Reason = info.Reason
		}
	}
	return saw
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
